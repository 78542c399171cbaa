"""The tracer: sends an event into every entrance and watches its row appear in every destination."""
