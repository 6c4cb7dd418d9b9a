//! The words of a condition: names, texts, numbers and signs, each with its place.

use super::FilterError;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(String),
    Text(String),
    Number(f64),
    Sign(&'static str),
    End,
}

const SIGNS: [&str; 14] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "=", "(", ")", "+", "-", "*",
];

pub fn tokens(text: &str) -> Result<Vec<(Token, usize)>, FilterError> {
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
