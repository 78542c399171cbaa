"""The command line, `onramp`: one file per verb, heavy imports only inside the verb that needs them."""
