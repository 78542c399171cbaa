"""The admin service: stores parked events, shows them to operators and replays them."""
