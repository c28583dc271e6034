"""Point clouds: read, made alike, learned and classified."""
