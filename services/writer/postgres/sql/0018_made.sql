-- A public table as the modeler left it: what somebody drops, renames or retypes is told, not filled with nulls.
ALTER TABLE onramp.models ADD COLUMN made jsonb;
