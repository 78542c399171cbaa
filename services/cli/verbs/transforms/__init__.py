"""`onramp transforms`: the verbs of authors and of operators."""
