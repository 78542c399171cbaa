"""The pages: one file each with `add(ui)`, and one template each; all modules here are loaded."""
