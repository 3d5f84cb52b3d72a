"""What a step would take at another batch or context: the law, its fit, and the questions it answers."""
