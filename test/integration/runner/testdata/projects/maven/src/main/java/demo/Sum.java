package demo;

public class Sum {
    public static int of(int a, int b) {
        return a + b;
    }
}
