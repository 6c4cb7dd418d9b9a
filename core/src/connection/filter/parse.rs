//! From the words of a condition to its tree.

use super::tokens::{Token, tokens};
use super::{COMPARISONS, FilterError, Node};
use crate::connection::summary::{self, Cell};

/// Wireshark's names for what a connection has: of two columns either may be meant.
const WIRESHARK: [(&str, &[&str]); 13] = [
    ("tcp.port", &["port", "client_port"]),
    ("tcp.srcport", &["client_port"]),
    ("tcp.dstport", &["port"]),
    ("tcp.stream", &["id"]),
    ("ip.addr", &["client", "server"]),
    ("ip.src", &["client"]),
    ("ip.dst", &["server"]),
    ("ipv6.addr", &["client", "server"]),
    ("ipv6.src", &["client"]),
    ("ipv6.dst", &["server"]),
    ("tcp.analysis.retransmission", &["retransmissions"]),
    (
        "tcp.analysis.duplicate_ack",
        &["dup_acks_client", "dup_acks_server"],
    ),
    (
        "tcp.analysis.zero_window",
        &["zero_windows_client", "zero_windows_server"],
    ),
];

/// Deeper nesting than this is refused rather than recursed into.
const MAX_DEPTH: usize = 100;

/// The tree of a whole text.
pub fn parse(text: &str) -> Result<Node, FilterError> {
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
        Token::End => Ok(root),
        _ => Err(parser.error("unexpected text")),
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
        if matches!(self.token(), Token::Name(name) if name == "in") {
            self.take();
            return Ok(Node::In(Box::new(left), self.set()?));
        }
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

    /// `{80, 443, 8000..8999}`.
    fn set(&mut self) -> Result<Vec<(Node, Option<Node>)>, FilterError> {
        if self.take() != Token::Sign("{") {
            return Err(self.error("a set is written {80, 443}: no {"));
        }
        let mut members = Vec::new();
        loop {
            let low = self.sum()?;
            let high = if *self.token() == Token::Sign("..") {
                self.take();
                Some(self.sum()?)
            } else {
                None
            };
            members.push((low, high));
            match self.token() {
                Token::Sign(",") => self.take(),
                Token::Sign("}") => {
                    self.take();
                    return Ok(members);
                }
                _ => return Err(self.error("a set ends with }")),
            };
        }
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
            Token::Number(number) => Ok(Node::Constant(Cell::Float(number))),
            Token::Text(text) => Ok(Node::Constant(Cell::Text(text))),
            Token::Address(address, None) => Ok(Node::Constant(Cell::Text(address.to_string()))),
            Token::Address(address, Some(prefix)) => Ok(Node::Network(address, prefix)),
            Token::Sign("-") => {
                let zero = Box::new(Node::Constant(Cell::Float(0.0)));
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
                Ok(Node::Constant(Cell::Bool(true)))
            }
            Token::Name(name) if name == "false" || name == "False" => {
                Ok(Node::Constant(Cell::Bool(false)))
            }
            Token::Name(name) => self.column(&name).ok_or_else(|| FilterError {
                reason: self.unknown(&name),
                ..at
            }),
            _ => Err(at),
        }
    }

    /// A column by its name, by its name without the unit, or by Wireshark's.
    fn column(&self, name: &str) -> Option<Node> {
        let place = |name: &str| self.names.iter().position(|known| known == name);
        if let Some(place) = place(name) {
            return Some(Node::Column(place));
        }
        if let Some((_, columns)) = WIRESHARK.iter().find(|(known, _)| *known == name) {
            return Some(match columns {
                [only] => Node::Column(place(only)?),
                [first, second, ..] => Node::Either([place(first)?, place(second)?]),
                [] => return None,
            });
        }
        // `rtt_min_client`: the unit stands before the side.
        let with_unit = |unit: &str| match name.rsplit_once('_') {
            Some((what, side @ ("client" | "server"))) => format!("{what}_{unit}_{side}"),
            _ => format!("{name}_{unit}"),
        };
        let units = ["ns", "bps"].map(|unit| place(&with_unit(unit)));
        units.into_iter().flatten().next().map(Node::Column)
    }

    fn unknown(&self, name: &str) -> String {
        if name.contains('.') {
            let known: Vec<&str> = WIRESHARK.iter().map(|(known, _)| *known).collect();
            return format!("no field {name:?} (of Wireshark's: {})", known.join(", "));
        }
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
            format!("no column {name:?} (tcptrace-lab columns has them all)")
        }
    }
}
