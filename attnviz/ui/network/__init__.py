"""A lookup as a network of nodes and edges; the browser code begins in streamlit.js."""
