"""The pages' parts: everything that uses Streamlit."""
