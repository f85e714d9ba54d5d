"""What pages show, computed from their states: no Streamlit."""
