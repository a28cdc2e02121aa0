"""What a request must be before anything of Gradio sees it, and how much a visitor may ask for."""
