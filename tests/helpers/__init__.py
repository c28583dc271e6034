"""What several tests share; pytest puts `tests` on the path."""
