//! What a condition's tree says of a row.

use super::{COMPARISONS, Node, Value};

pub fn is_true(value: &Value) -> bool {
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

pub fn evaluate(node: &Node, row: &[Value]) -> Value {
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
