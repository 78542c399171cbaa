"""Commands of a function's author: tests on examples, and checks of outputs."""
