"""What changed between two logs, bin by bin with bootstrap intervals, or between two profiles, figure by figure."""
