//! The words of a condition: names, texts, numbers, addresses and signs, each with its place.

use std::net::IpAddr;

use super::FilterError;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Name(String),
    Text(String),
    Number(f64),
    /// An address, or with the length of its prefix a network: `10.0.0.0/8`.
    Address(IpAddr, Option<u8>),
    Sign(&'static str),
    End,
}

/// The longer of two that begin alike first.
const SIGNS: [&str; 20] = [
    "==", "!=", "<=", ">=", "&&", "||", "..", "<", ">", "=", "(", ")", "{", "}", ",", "+", "-",
    "*", "/", "!",
];

/// What may stand behind a number, and what it is multiplied by: the table has nanoseconds, bytes and bits a second.
const UNITS: [(&str, f64); 22] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
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
        } else if let Some((address, prefix, len)) = address(rest) {
            (Token::Address(address, prefix), len)
        } else if first.is_ascii_alphabetic() || first == '_' {
            let len = rest
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
                .unwrap_or(rest.len());
            (Token::Name(rest[..len].to_owned()), len)
        } else if first.is_ascii_digit() || (first == '.' && !rest.starts_with("..")) {
            let len = number_len(rest);
            let digits = rest[..len].replace('_', "");
            let number: f64 = digits.parse().map_err(|_| error("not a number", at))?;
            let (factor, unit_len) = unit(&rest[len..]);
            (Token::Number(number * factor), len + unit_len)
        } else if first == '\'' || first == '"' {
            let len = rest[1..]
                .find(first)
                .ok_or_else(|| error("a quote is not closed", at))?;
            (Token::Text(rest[1..=len].to_owned()), len + 2)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
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

/// An address at the beginning of a text, with the length of its prefix where there is one.
fn address(text: &str) -> Option<(IpAddr, Option<u8>, usize)> {
    let len = text
        .find(|c: char| !c.is_ascii_hexdigit() && c != '.' && c != ':')
        .unwrap_or(text.len());
    let address: IpAddr = text[..len].parse().ok()?;
    let behind = text[len..].strip_prefix('/').unwrap_or("");
    let digits = behind
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(behind.len());
    let most = if address.is_ipv4() { 32 } else { 128 };
    match behind[..digits].parse() {
        Ok(prefix) if prefix <= most => Some((address, Some(prefix), len + 1 + digits)),
        _ => Some((address, None, len)),
    }
}

/// The factor of a unit at the beginning of a text, and the unit's length; 1 and 0 where there is none.
fn unit(text: &str) -> (f64, usize) {
    let len = text
        .find(|c: char| !c.is_ascii_alphabetic() && c != '/')
        .unwrap_or(text.len());
    let found = UNITS.iter().find(|(name, _)| *name == &text[..len]);
    found.map_or((1.0, 0), |(name, factor)| (*factor, name.len()))
}

/// Digits, a point, an exponent with its sign.
fn number_len(text: &str) -> usize {
    let mut before = ' ';
    // Two points are a range: 80..90.
    let text = text.split("..").next().unwrap_or(text);
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
