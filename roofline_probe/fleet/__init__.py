"""From one card to a fleet: live counters, Prometheus rules, a dashboard, many logs and many profiles at once."""
