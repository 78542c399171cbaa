"""Client libraries that producers install or copy, independent of the services."""
