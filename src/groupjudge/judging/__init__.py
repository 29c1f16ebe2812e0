"""Request formats, verdict reading, the judges, and the panel that judges all pairs of a group."""
