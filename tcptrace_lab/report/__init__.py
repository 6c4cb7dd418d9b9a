"""What people look at: pictures (the only importer of plotting libraries), and lines on a terminal."""
