"""Files and data sets in, answers out: read, prepare, train or predict, put back, write."""
