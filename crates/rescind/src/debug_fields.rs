//! Debugging output of types most of whose members have none.

/// Shows a type by its name and these of its fields, as one that has more.
macro_rules! debug_fields {
    ($type:ident $(<$($generic:ident),+>)? $(, $field:ident)*) => {
        impl $(<$($generic),+>)? std::fmt::Debug for $type $(<$($generic),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($field), &self.$field))*.finish_non_exhaustive()
            }
        }
    };
}
