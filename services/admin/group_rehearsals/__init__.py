"""Would they land now?  Some events of each open group are rehearsed, again and again."""
