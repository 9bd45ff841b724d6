//! Tests of `known`.
