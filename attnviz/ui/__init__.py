"""All that knows Streamlit."""
