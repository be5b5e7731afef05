#[test]
fn sums() {
    assert_eq!(add::two(2, 3), 5);
}
