//! Tables kept column by column.

/// A table that is filled row by row.
pub trait ColumnTable: Sized {
    type Row;

    fn with_capacity(rows: usize) -> Self;

    fn push(&mut self, row: Self::Row);

    fn drop_first(&mut self, rows: usize);
}

/// `columns! { Table of Row { column: type, ... } }`: both, and how the one is made of the other.
macro_rules! columns {
    (
        $(#[$doc:meta])* $table:ident of $(#[$row_doc:meta])* $row:ident {
            $($(#[$column_doc:meta])* $column:ident: $type:ty,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $table {
            $($(#[$column_doc])* pub $column: Vec<$type>,)*
        }

        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $row {
            $($(#[$column_doc])* pub $column: $type,)*
        }

        impl ColumnTable for $table {
            type Row = $row;

            fn with_capacity(rows: usize) -> Self {
                Self { $($column: Vec::with_capacity(rows),)* }
            }

            fn push(&mut self, row: $row) {
                $(self.$column.push(row.$column);)*
            }

            fn drop_first(&mut self, rows: usize) {
                $(self.$column.drain(..rows);)*
            }
        }
    };
}

pub(super) use columns;
