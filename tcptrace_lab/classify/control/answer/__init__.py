"""Who is out, who did it, and what is said of it."""
