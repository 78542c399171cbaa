-- Topics that fed a table's landing once, and were deleted: what they have is not what follows on the one of today.
ALTER TABLE onramp.models ADD COLUMN past_topics uuid[] NOT NULL DEFAULT '{}';
