"""Files of lessons, and how answers are checked."""
