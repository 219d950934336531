"""A small invented world whose truth is computed, not annotated: pictures, texts in twelve languages, and a census.

Everything is a pure function of integers. `scenes` has the countries, signs and conventions and draws what a picture
shows, `drawing` paints it, `scene_texts` writes about it, and `census` has the entities of the knowledge base and the
answers to the rubrics' questions.
"""
