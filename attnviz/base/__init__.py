"""What any program needs: settings, languages, readers that bound what they read, and how numbers are written."""
