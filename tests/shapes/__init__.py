"""Whatever clients send and upstreams answer: one test for each known way in which rewriting or proxying goes wrong."""
