"""The command line, `onramp`: one file per verb in `verbs`, heavy imports only inside what needs them."""
