"""ROUTES: the tables of the lake that events go to."""
