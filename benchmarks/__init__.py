"""How fast is Kaizen, compared with as little as possible that does the same?"""
