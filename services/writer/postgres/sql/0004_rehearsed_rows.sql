-- The row of a rehearsed event as Postgres returns it, on request: it is landed in a temporary copy of its table.
ALTER TABLE onramp.rehearsals
    -- Whether the row is requested.
    ADD COLUMN shows_row boolean NOT NULL DEFAULT false,
    -- The row as JSON; none if the event would not land, or if its table cannot be copied.
    ADD COLUMN row_text  text;
