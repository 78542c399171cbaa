-- Events that somebody removes by hand are in no state any more; the keeper may keep them again.
CREATE FUNCTION onramp_admin.count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO onramp_admin.moves (group_id, state, events)
    SELECT group_id, state, -count(*) FROM before GROUP BY 1, 2;
    RETURN NULL;
END $$;
CREATE TRIGGER removed_are_counted AFTER DELETE ON onramp_admin.events
    REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.count_removed();
