"""The checks that a request passes before Gradio sees it, and the limits of one visitor."""
