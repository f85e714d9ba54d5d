"""What a deployment needs: who reaches the app, how its files are served, whose turn it is, and what is counted."""
