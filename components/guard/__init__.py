"""The checks that a request passes before the app sees it, and the limits of one visitor."""
