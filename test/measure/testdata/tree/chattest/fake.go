package chattest

const Fake = "heard by the tests"
