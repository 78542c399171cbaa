-- What somebody has done stays: rows are added and never changed, whoever asks.
CREATE FUNCTION onramp_admin.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'acts are written once and stay';
END $$;
CREATE TRIGGER acts_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON onramp_admin.acts
    FOR EACH STATEMENT EXECUTE FUNCTION onramp_admin.refuse_change();
CREATE INDEX acts_of_actor ON onramp_admin.acts (actor, id);
CREATE INDEX acts_of_subject ON onramp_admin.acts (subject, id);
