"""REPLAY: lands parked events that an operator replays, and rehearses replays."""
