//! What a condition's tree says of a row.

use std::net::IpAddr;

use super::{COMPARISONS, Cell, Node};

pub fn is_true(value: &Cell) -> bool {
    match value {
        Cell::Bool(value) => *value,
        Cell::Int(value) => *value != 0,
        Cell::Float(value) => *value != 0.0,
        Cell::Text(text) => !text.is_empty(),
        Cell::Missing => false,
    }
}

fn as_number(value: &Cell) -> Option<f64> {
    match value {
        Cell::Int(value) => Some(*value as f64),
        Cell::Float(value) => Some(*value),
        Cell::Bool(value) => Some(f64::from(*value)),
        Cell::Text(_) | Cell::Missing => None,
    }
}

pub fn evaluate(node: &Node, row: &[Cell]) -> Cell {
    match node {
        Node::Column(place) => row[*place].clone(),
        Node::Constant(value) => value.clone(),
        Node::Either([first, _]) => row[*first].clone(),
        Node::Network(address, _) => Cell::Text(address.to_string()),
        Node::In(value, wanted) => Cell::Bool(wanted.iter().any(|(low, high)| match high {
            None => is_true(&compare("==", value, low, row)),
            Some(high) => {
                is_true(&compare(">=", value, low, row))
                    && is_true(&compare("<=", value, high, row))
            }
        })),
        Node::Not(inner) => Cell::Bool(!is_true(&evaluate(inner, row))),
        Node::Binary("and", left, right) => {
            Cell::Bool(is_true(&evaluate(left, row)) && is_true(&evaluate(right, row)))
        }
        Node::Binary("or", left, right) => {
            Cell::Bool(is_true(&evaluate(left, row)) || is_true(&evaluate(right, row)))
        }
        Node::Binary(sign, left, right) => compare(sign, left, right, row),
    }
}

fn compare(sign: &str, left: &Node, right: &Node, row: &[Cell]) -> Cell {
    if let Node::Either(columns) = left {
        // Wireshark: one of them for ==, <, ...; none of them the value for !=.
        let mut each = columns
            .iter()
            .map(|&column| is_true(&compare(sign, &Node::Column(column), right, row)));
        return Cell::Bool(if sign == "!=" {
            each.all(|is_other| is_other)
        } else {
            each.any(|is_it| is_it)
        });
    }
    if let (Node::Network(network, prefix), "==" | "!=") = (right, sign) {
        let Cell::Text(address) = evaluate(left, row) else {
            return Cell::Bool(false);
        };
        let is_within = address
            .parse()
            .is_ok_and(|address| is_within(address, *network, *prefix));
        return Cell::Bool(is_within == (sign == "=="));
    }
    binary(sign, &evaluate(left, row), &evaluate(right, row))
}

/// Whether the first `prefix` bits of two addresses of one family are the same.
fn is_within(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let (address, network, bits) = match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            (address.to_bits().into(), network.to_bits().into(), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => (address.to_bits(), network.to_bits(), 128),
        _ => return false,
    };
    let differing: u128 = address ^ network;
    differing.checked_shr(bits - u32::from(prefix)).unwrap_or(0) == 0
}

fn binary(sign: &str, left: &Cell, right: &Cell) -> Cell {
    let order = match (left, right) {
        (Cell::Text(left), Cell::Text(right)) => Some(left.cmp(right)),
        _ => {
            let (Some(left), Some(right)) = (as_number(left), as_number(right)) else {
                return if COMPARISONS.contains(&sign) {
                    Cell::Bool(false)
                } else {
                    Cell::Missing
                };
            };
            match sign {
                "+" => return Cell::Float(left + right),
                "-" => return Cell::Float(left - right),
                "*" => return Cell::Float(left * right),
                "/" => return Cell::Float(left / right),
                _ => left.partial_cmp(&right),
            }
        }
    };
    let Some(order) = order else {
        return Cell::Bool(false);
    };
    Cell::Bool(match sign {
        "==" => order.is_eq(),
        "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        _ => return Cell::Missing,
    })
}
