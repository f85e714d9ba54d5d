"""What the teaching pages compute: lookup, scaling, steps, predictions, and the lesson files."""
