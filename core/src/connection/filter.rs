//! A condition on a row of the connections table: `port == 443 and bytes > 1e6`.
//!
//! `or`, `and`, `not`, comparisons, `+ - * /`, parentheses; column names, numbers, quoted texts, true and false. A
//! comparison with a missing value is false.

use super::connection::Connection;
use super::summary::{self, Value};

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter: {reason} at column {column} of {text:?}")]
pub struct FilterError {
    pub reason: String,
    pub column: usize,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(f64),
    Sign(&'static str),
    End,
}

#[derive(Clone, Debug)]
enum Node {
    Column(usize),
    Constant(Value),
    Not(Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
}

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
}

const SIGNS: [&str; 14] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "=", "(", ")", "+", "-", "*",
];
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];
/// Deeper nesting than this is refused rather than recursed into.
const MAX_DEPTH: usize = 100;

impl Filter {
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let names = summary::columns().map(|(name, _)| name).collect();
        let mut parser = Parser {
            text,
            tokens: tokens(text)?,
            next: 0,
            names,
            depth: 0,
        };
        let root = parser.any()?;
        match parser.token() {
            Token::End => Ok(Self { root }),
            _ => Err(parser.error("unexpected text")),
        }
    }

    pub fn accepts(&self, connection: &Connection) -> bool {
        let row: Vec<Value> = summary::row(connection).collect();
        is_true(&evaluate(&self.root, &row))
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    next: usize,
    names: Vec<String>,
    depth: usize,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn take(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, reason: &str) -> FilterError {
        let column = self.tokens[self.next].1 + 1;
        FilterError {
            reason: reason.to_owned(),
            column,
            text: self.text.to_owned(),
        }
    }

    fn is_word(&self, word: &str, sign: &str) -> bool {
        match self.token() {
            Token::Name(name) => name == word,
            Token::Sign(found) => *found == sign,
            _ => false,
        }
    }

    fn any(&mut self) -> Result<Node, FilterError> {
        let mut left = self.all()?;
        while self.is_word("or", "||") {
            self.take();
            left = Node::Binary("or", Box::new(left), Box::new(self.all()?));
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Node, FilterError> {
        let mut left = self.inverted()?;
        while self.is_word("and", "&&") {
            self.take();
            left = Node::Binary("and", Box::new(left), Box::new(self.inverted()?));
        }
        Ok(left)
    }

    fn inverted(&mut self) -> Result<Node, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let node = if self.is_word("not", "!") {
            self.take();
            Node::Not(Box::new(self.inverted()?))
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, FilterError> {
        let left = self.sum()?;
        let Token::Sign(sign) = *self.token() else {
            return Ok(left);
        };
        if sign == "=" {
            return Err(self.error("a comparison is written =="));
        }
        if !COMPARISONS.contains(&sign) {
            return Ok(left);
        }
        self.take();
        Ok(Node::Binary(sign, Box::new(left), Box::new(self.sum()?)))
    }

    fn sum(&mut self) -> Result<Node, FilterError> {
        let mut left = self.product()?;
        while let Token::Sign(sign @ ("+" | "-")) = *self.token() {
            self.take();
            left = Node::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Node, FilterError> {
        let mut left = self.operand()?;
        while let Token::Sign(sign @ ("*" | "/")) = *self.token() {
            self.take();
            left = Node::Binary(sign, Box::new(left), Box::new(self.operand()?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Node, FilterError> {
        let at = self.error("a column, a number or a text is missing");
        match self.take() {
            Token::Number(number) => Ok(Node::Constant(Value::Float(number))),
            Token::Text(text) => Ok(Node::Constant(Value::Text(text))),
            Token::Sign("-") => {
                let zero = Box::new(Node::Constant(Value::Float(0.0)));
                self.depth += 1;
                if self.depth > MAX_DEPTH {
                    return Err(self.error("nested too deeply"));
                }
                let node = Node::Binary("-", zero, Box::new(self.operand()?));
                self.depth -= 1;
                Ok(node)
            }
            Token::Sign("(") => {
                let node = self.any()?;
                match self.token() {
                    Token::Sign(")") => {
                        self.take();
                        Ok(node)
                    }
                    _ => Err(self.error("a closing parenthesis is missing")),
                }
            }
            Token::Name(name) if name == "true" || name == "True" => {
                Ok(Node::Constant(Value::Bool(true)))
            }
            Token::Name(name) if name == "false" || name == "False" => {
                Ok(Node::Constant(Value::Bool(false)))
            }
            Token::Name(name) => match self.names.iter().position(|known| *known == name) {
                Some(place) => Ok(Node::Column(place)),
                None => Err(FilterError {
                    reason: self.unknown(&name),
                    ..at
                }),
            },
            _ => Err(at),
        }
    }

    fn unknown(&self, name: &str) -> String {
        // The names that share the most letters at their beginning, as a hint.
        let shared = |known: &String| {
            known
                .bytes()
                .zip(name.bytes())
                .take_while(|(a, b)| a == b)
                .count()
        };
        let best = self.names.iter().map(shared).max().unwrap_or(0);
        let near: Vec<&str> = self
            .names
            .iter()
            .filter(|known| shared(known) == best)
            .map(String::as_str)
            .take(6)
            .collect();
        if best >= 2 {
            format!("no column {name:?} (perhaps {})", near.join(", "))
        } else {
            format!("no column {name:?} (columns are the keys of a connection in analyze --json)")
        }
    }
}

fn tokens(text: &str) -> Result<Vec<(Token, usize)>, FilterError> {
    let error = |reason: &str, at: usize| FilterError {
        reason: reason.to_owned(),
        column: at + 1,
        text: text.to_owned(),
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, len) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_alphabetic() || first == '_' {
            let len = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            (Token::Name(rest[..len].to_owned()), len)
        } else if first.is_ascii_digit() || first == '.' {
            let len = number_len(rest);
            let digits = rest[..len].replace('_', "");
            (
                Token::Number(digits.parse().map_err(|_| error("not a number", at))?),
                len,
            )
        } else if first == '\'' || first == '"' {
            let len = rest[1..]
                .find(first)
                .ok_or_else(|| error("a quote is not closed", at))?;
            (Token::Text(rest[1..=len].to_owned()), len + 2)
        } else if let Some(sign) = SIGNS
            .iter()
            .chain(&["/", "!"])
            .find(|sign| rest.starts_with(**sign))
        {
            (Token::Sign(sign), sign.len())
        } else {
            return Err(error("unexpected character", at));
        };
        tokens.push((token, at));
        at += len;
    }
    tokens.push((Token::End, at));
    Ok(tokens)
}

/// Digits, a point, an exponent with its sign.
fn number_len(text: &str) -> usize {
    let mut before = ' ';
    text.find(|c: char| {
        let is_part = c.is_ascii_digit()
            || c == '.'
            || c == '_'
            || matches!(c, 'e' | 'E')
            || (matches!(c, '+' | '-') && matches!(before, 'e' | 'E'));
        before = c;
        !is_part
    })
    .unwrap_or(text.len())
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Bool(value) => *value,
        Value::Int(value) => *value != 0,
        Value::Float(value) => *value != 0.0,
        Value::Text(text) => !text.is_empty(),
        Value::Missing => false,
    }
}

fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Float(value) => Some(*value),
        Value::Bool(value) => Some(f64::from(*value)),
        Value::Text(_) | Value::Missing => None,
    }
}

fn evaluate(node: &Node, row: &[Value]) -> Value {
    match node {
        Node::Column(place) => row[*place].clone(),
        Node::Constant(value) => value.clone(),
        Node::Not(inner) => Value::Bool(!is_true(&evaluate(inner, row))),
        Node::Binary("and", left, right) => {
            Value::Bool(is_true(&evaluate(left, row)) && is_true(&evaluate(right, row)))
        }
        Node::Binary("or", left, right) => {
            Value::Bool(is_true(&evaluate(left, row)) || is_true(&evaluate(right, row)))
        }
        Node::Binary(sign, left, right) => {
            binary(sign, &evaluate(left, row), &evaluate(right, row))
        }
    }
}

fn binary(sign: &str, left: &Value, right: &Value) -> Value {
    let order = match (left, right) {
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        _ => {
            let (Some(left), Some(right)) = (as_number(left), as_number(right)) else {
                return if COMPARISONS.contains(&sign) {
                    Value::Bool(false)
                } else {
                    Value::Missing
                };
            };
            match sign {
                "+" => return Value::Float(left + right),
                "-" => return Value::Float(left - right),
                "*" => return Value::Float(left * right),
                "/" => return Value::Float(left / right),
                _ => left.partial_cmp(&right),
            }
        }
    };
    let Some(order) = order else {
        return Value::Bool(false);
    };
    Value::Bool(match sign {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => return Value::Missing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Endpoint;
    use std::net::{IpAddr, Ipv4Addr};

    fn accepts(text: &str) -> bool {
        let end = |port| Endpoint {
            addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        };
        let mut connection = Connection::new(3, [end(5000), end(443)], false);
        connection.flows[0].counts.pure_acks = 1000;
        Filter::new(text).unwrap().accepts(&connection)
    }

    #[test]
    fn conditions_read_as_they_are_written() {
        assert!(accepts("port==443 and packets>=1e3"));
        assert!(accepts("port == 80 or client_port == 5_000"));
        assert!(!accepts("not (id == 3)"));
        assert!(accepts("server == '127.0.0.1' and end != \"fin\""));
        assert!(accepts("packets / 2 - 1 > 498.5 && packets*2 == 2000"));
        assert!(accepts("packets > -1"));
        assert!(!accepts("sack"));
    }

    #[test]
    fn comparison_with_a_missing_value_is_false() {
        assert!(!accepts("rtt_min_ns_client > 0"));
        assert!(!accepts("rtt_min_ns_client <= 0"));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        fn error(text: &str) -> String {
            Filter::new(text).unwrap_err().to_string()
        }
        assert!(error("prot == 443").contains("no column \"prot\""));
        assert!(error("port = 443").contains("written =="));
        assert!(error("port == ").contains("missing"));
        assert!(error("(port == 1").contains("parenthesis"));
        assert!(error("port == 'x").contains("quote"));
        assert!(error("port ; 1").contains("at column 6"));
        assert!(error("1 2").contains("unexpected"));
        assert!(error(&"(".repeat(10_000)).contains("deeply"));
        assert!(error(&"-".repeat(10_000)).contains("deeply"));
        assert!(error("1.2.3 > 0").contains("not a number"));
        assert!(error("é").contains("unexpected character"));
    }
}
