pub fn two(a: u32, b: u32) -> u32 {
    a + b
}
