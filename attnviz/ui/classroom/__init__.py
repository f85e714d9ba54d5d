"""A live class: the routes that phones use, the page of followers, and the teacher's strip on each page."""
