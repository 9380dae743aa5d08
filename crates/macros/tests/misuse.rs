//! What the compiler says of a tool that is none.

#[test]
fn misuse_is_told_with_what_to_write() {
    trybuild::TestCases::new().compile_fail("tests/misuse/*.rs");
}
